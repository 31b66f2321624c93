# Databricks notebook source
# MAGIC %md
# MAGIC # Rebuild a RocketMQ store
# MAGIC
# MAGIC A broker writes every message once, into its CommitLog, and derives from it what makes
# MAGIC messages findable: a ConsumeQueue for each topic and queue, and IndexFiles by key. This
# MAGIC notebook derives them again with Spark, as RocketMQ 5.3.3 would, byte for byte, and then
# MAGIC compares them with the files that RocketMQ itself made from the same log.
# MAGIC
# MAGIC It runs as it is on Databricks and, locally, with `python notebooks/rebuild_store.py`.

# COMMAND ----------

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(globals().get("__file__", os.path.join(os.getcwd(), "notebook"))).resolve().parent
sys.path.insert(0, str(HERE.parent))

import reput
from reput.jobs.console.picture import queue_chart

# COMMAND ----------
# MAGIC %md
# MAGIC On Databricks `spark` is there. Elsewhere we start a local session.

# COMMAND ----------

if "spark" not in globals():
    from contextlib import ExitStack

    from reput.jobs.spark.session import local_session

    at_exit = ExitStack()
    spark = at_exit.enter_context(local_session("local[2]"))

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker wrote it: plain and batched messages, delays, timers, transactions. `input/`
# MAGIC is the store as found, `expect/` what RocketMQ derived. On a cluster, put both in a place
# MAGIC that all machines see, such as `/Volumes/...`, and set `WORK` to it.

# COMMAND ----------

WORK = Path(os.environ.get("REPUT_NOTEBOOK_WORK") or tempfile.mkdtemp(prefix="reput-notebook-"))
ARCHIVE = HERE.parent / "tests" / "golden" / "broker_clean_5.3.3.tar.xz"
subprocess.run(["tar", "-xJf", str(ARCHIVE), "-C", str(WORK)], check=True)
STORE = WORK / "broker_clean_5.3.3"
SETTINGS = {"mappedFileSizeCommitLog": "16777216"}

# COMMAND ----------
# MAGIC %md
# MAGIC ## Rebuild
# MAGIC One call. The summary says what was read and written; `manifest.json` in the output has
# MAGIC every file with its length and SHA-256.

# COMMAND ----------

summary = reput.rebuild(
    spark,
    str(STORE / "input"),
    str(WORK / "rebuilt"),
    rocketmq="5.3.3",
    settings=SETTINGS,
)
print(summary.text())

# COMMAND ----------
# MAGIC %md
# MAGIC ## Compare with RocketMQ's own files

# COMMAND ----------

report = reput.verify(
    spark,
    str(STORE / "input"),
    against=str(STORE / "expect"),
    rocketmq="5.3.3",
    settings=SETTINGS,
)
print(report.text())
assert report.same

# COMMAND ----------
# MAGIC %md
# MAGIC ## One picture: where the messages went
# MAGIC Each bar is a queue, its length the number of its entries.

# COMMAND ----------

picture = queue_chart(summary)
if "displayHTML" in globals():
    displayHTML(picture)  # noqa: F821
else:
    (WORK / "queues.svg").write_text(picture)
    print(f"picture: {WORK / 'queues.svg'}")

# COMMAND ----------

if "at_exit" in globals():
    at_exit.close()
