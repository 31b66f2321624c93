# Databricks notebook source
# MAGIC %md
# MAGIC # After a crash: what was lost, what came back?
# MAGIC
# MAGIC One bit of a log flipped on a bad disk. A broker that starts on it ends the log there: all
# MAGIC messages behind the bit are gone. This notebook says exactly what is damaged, counts what
# MAGIC RocketMQ's recovery would keep, and saves the rest.
# MAGIC
# MAGIC Locally it runs with `python notebooks/after_crash.py`; on Databricks give its widget
# MAGIC `work` a folder in a volume first, which all machines see.

# COMMAND ----------

from helpers import Notebook

import reput

here = Notebook(globals())
spark = here.spark()

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A log that RocketMQ 5.3.3 wrote, with one damaged record in the middle. Its queues and
# MAGIC index are gone too.

# COMMAND ----------

STORE = str(here.bundled("golden/middle_magic_5.3.3.tar.xz") / "middle_magic_5.3.3" / "input")
RELEASE = "5.3.3"  # a log alone does not show it

# COMMAND ----------
# MAGIC %md
# MAGIC ## What is damaged
# MAGIC Every record is read with every CRC. Each damaged range has its cause, and the messages
# MAGIC that it took.

# COMMAND ----------

checked = reput.check(spark, STORE, rocketmq=RELEASE)
here.table(
    ("offset", "bytes", "what is wrong"),
    [(each["physical_offset"], each["length"], f"{each['field']} {each['reason']}")
     for each in checked.damage["ranges"]],
)  # fmt: skip
print(f"{checked.damage['messages_missing']} message lost, {checked.messages:,} are whole")
assert not checked.sound

# COMMAND ----------
# MAGIC %md
# MAGIC ## What RocketMQ would keep, and what salvage keeps
# MAGIC `truncate` ends the log at the damage, as RocketMQ's recovery does; `salvage` leaves the
# MAGIC one record out and goes on.

# COMMAND ----------

kept = {
    how: reput.rebuild(
        spark, STORE, str(here.work / how), rocketmq=RELEASE, on_damage=how, replace=True
    ).messages
    for how in ("truncate", "salvage")
}
here.table(("on damage", "messages kept"), list(kept.items()))
assert kept["salvage"] == checked.messages

# COMMAND ----------
# MAGIC %md
# MAGIC ## A store that a broker serves
# MAGIC `repair` copies the log with a filler in place of the damage, and derives queues and index
# MAGIC from the copy. The damaged store is only read.

# COMMAND ----------

REPAIRED = str(here.work / "repaired")
repaired = reput.repair(spark, STORE, REPAIRED, rocketmq=RELEASE, replace_output=True)
print(repaired.text())
again = reput.check(spark, REPAIRED, rocketmq=RELEASE)
assert again.sound

# COMMAND ----------
# MAGIC %md
# MAGIC ## Before and after, in pictures

# COMMAND ----------

for name, folder in (("before", STORE), ("after", REPAIRED)):
    page = here.page(f"{name}.html")
    written = reput.report(spark, folder, str(page), rocketmq=RELEASE)
    print(f"{name}: {written.verdict}")
    here.show(page)
here.close()
