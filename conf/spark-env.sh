# shellcheck shell=bash
# An example for each machine of a standalone cluster; Spark's scripts read it as they start.

# The workers' Python: 3.11 to 3.13 with numpy, numba, pyarrow and pandas below 3, the same minor version as
# the driver's. Nothing of reput: its modules are shipped with the job.
#export PYSPARK_PYTHON=/opt/reput/bin/python3

# Shuffles are small (a row for each split and each file); staging, which is not, lies beside the output.
#export SPARK_LOCAL_DIRS=/var/tmp/spark

# One core of two is busy with Python for each task: as many tasks as cores.
#export SPARK_WORKER_CORES=4
#export SPARK_WORKER_MEMORY=2g

# Where the master listens; on a machine with several addresses say which.
#export SPARK_MASTER_HOST=10.0.0.1
