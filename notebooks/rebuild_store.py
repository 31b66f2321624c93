# Databricks notebook source
# MAGIC %md
# MAGIC # Rebuild a RocketMQ store
# MAGIC
# MAGIC A broker writes every message once, into its CommitLog, and derives from it what makes
# MAGIC messages findable: a ConsumeQueue for each topic and queue, and IndexFiles by key. This
# MAGIC notebook derives them again with Spark, as RocketMQ 5.3.3 would, byte for byte, and then
# MAGIC compares them with the files that RocketMQ itself made from the same log.
# MAGIC
# MAGIC Locally it runs with `python notebooks/rebuild_store.py`; on Databricks give its widget
# MAGIC `work` a folder in a volume first, which all machines see.

# COMMAND ----------

from helpers import Notebook
from queue_chart import queue_chart

import reput

here = Notebook(globals())
spark = here.spark()

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker wrote it: plain and batched messages, delays, timers, transactions. `input/`
# MAGIC is the store as found, `expect/` what RocketMQ derived.

# COMMAND ----------

STORE = here.bundled("golden/broker_clean_5.3.3.tar.xz") / "broker_clean_5.3.3"
RELEASE = "5.3.3"  # the log alone does not show it

# COMMAND ----------
# MAGIC %md
# MAGIC ## Rebuild
# MAGIC One call. `manifest.json` in the output has every file with its length and SHA-256.

# COMMAND ----------

OUTPUT = str(here.work / "rebuilt")
summary = reput.rebuild(spark, str(STORE / "input"), OUTPUT, rocketmq=RELEASE, replace=True)
here.table(
    ("messages", "queues", "index keys", "files", "seconds"),
    [(summary.messages, summary.queues, summary.index_keys, len(summary.files),
      f"{summary.seconds:.1f}")],
)  # fmt: skip

# COMMAND ----------
# MAGIC %md
# MAGIC ## Compare with RocketMQ's own files

# COMMAND ----------

report = reput.verify(spark, str(STORE / "input"), against=str(STORE / "expect"), rocketmq=RELEASE)
print(report.text())
assert report.same

# COMMAND ----------
# MAGIC %md
# MAGIC ## One picture: where the messages went
# MAGIC Each bar is a queue, its length the number of its entries.

# COMMAND ----------

picture = here.page("queues.svg")
picture.write_text(queue_chart(summary))
here.show(picture)
here.close()
