# Databricks notebook source
# MAGIC %md
# MAGIC # After a crash: what was lost, what came back?
# MAGIC
# MAGIC One bit of a log flipped on a bad disk. A broker that starts on it ends the log there: all
# MAGIC messages behind the bit are gone. This notebook says exactly what is damaged, counts what
# MAGIC RocketMQ's recovery would keep, and saves the rest.
# MAGIC
# MAGIC It runs as it is on Databricks and, locally, with `python notebooks/after_crash.py`.

# COMMAND ----------

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(globals().get("__file__", os.path.join(os.getcwd(), "notebook"))).resolve().parent
sys.path.insert(0, str(HERE.parent))

import reput

# COMMAND ----------

if "spark" not in globals():
    from contextlib import ExitStack

    from reput.jobs.spark.session import local_session

    at_exit = ExitStack()
    spark = at_exit.enter_context(local_session("local[2]"))

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A log that RocketMQ 5.3.3 wrote, with one damaged record in the middle. Its queues and
# MAGIC index are gone too.

# COMMAND ----------

WORK = Path(os.environ.get("REPUT_NOTEBOOK_WORK") or tempfile.mkdtemp(prefix="reput-notebook-"))
ARCHIVE = HERE.parent / "tests" / "golden" / "middle_magic_5.3.3.tar.xz"
subprocess.run(["tar", "-xJf", str(ARCHIVE), "-C", str(WORK)], check=True)
STORE = str(WORK / "middle_magic_5.3.3" / "input")
RELEASE = "5.3.3"  # a log alone does not tell it

# COMMAND ----------
# MAGIC %md
# MAGIC ## What is damaged
# MAGIC Every record is read with every CRC; each damaged range is named with its cause and with
# MAGIC the messages that it took.

# COMMAND ----------

checked = reput.check(spark, STORE, rocketmq=RELEASE)
for each in checked.damage["ranges"]:
    print(
        f"at {each['physical_offset']:,}, {each['length']:,} bytes: "
        f"{each['field']} {each['reason']}"
    )
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
        spark, STORE, str(WORK / how), rocketmq=RELEASE, on_damage=how, replace=True
    ).messages
    for how in ("truncate", "salvage")
}
print(f"truncate keeps {kept['truncate']:,} messages, salvage {kept['salvage']:,}")
assert kept["salvage"] == checked.messages

# COMMAND ----------
# MAGIC %md
# MAGIC ## A store that a broker serves
# MAGIC `repair` copies the log with a filler in place of the damage; queues and index are derived
# MAGIC from the copy. The damaged store is only read.

# COMMAND ----------

REPAIRED = str(WORK / "repaired")
repaired = reput.repair(spark, STORE, REPAIRED, rocketmq=RELEASE, replace_output=True)
print(repaired.text())
again = reput.check(spark, REPAIRED, rocketmq=RELEASE)
assert again.sound

# COMMAND ----------
# MAGIC %md
# MAGIC ## Before and after, in pictures

# COMMAND ----------

for name, folder in (("before", STORE), ("after", REPAIRED)):
    page = WORK / f"{name}.html"
    page.unlink(missing_ok=True)
    written = reput.report(spark, folder, str(page), rocketmq=RELEASE)
    print(f"{name}: {written.verdict}")
    if "displayHTML" in globals():
        displayHTML(page.read_text())  # noqa: F821

# COMMAND ----------

if "at_exit" in globals():
    at_exit.close()
