#!/usr/bin/env bash
# Runs a reput command by spark-submit, on any Spark master:
#
#   ./spark-submit.sh [SPARK-SUBMIT OPTIONS] COMMAND [ARGUMENTS]
#   ./spark-submit.sh --master spark://host:7077 rebuild STORE --output DIR --rocketmq 5.3.3
#
# What stands before the command (or before `--`) is spark-submit's, what follows is reput's. The
# code is shipped as reput.zip, before what --py-files names; numpy, numba, pyarrow, lark and
# pandas must be on the workers or be shipped with --archives: docs/clusters.md.
#
#   SPARK_HOME      the Spark to submit with (default: spark-submit on PATH, then .venv's)
#   PYSPARK_PYTHON  the workers' Python (default: the one in --archives X#NAME, of several the first
#                   with a name; then .venv's, but with --deploy-mode cluster the cluster's own)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
}

# The command is the first word that is neither an option nor an option's value.
submit=() archives='' py_files='' mode=client
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --) shift && break ;;
    -v | --verbose | --supervise | --load-spark-defaults | --version) submit+=("$1") && shift && continue ;;
    --*=*) option=${1%%=*} value=${1#*=} && shift ;;
    -*)
        [ $# -gt 1 ] || { echo "spark-submit.sh: $1 wants a value" >&2 && exit 2; }
        option=$1 value=$2 && shift 2
        ;;
    *) break ;;
    esac
    case $option=$value in
    --py-files=* | --conf=spark.submit.pyFiles=* | -c=spark.submit.pyFiles=*)
        py_files=$py_files,${value#spark.submit.pyFiles=} && continue ;;
    --archives=* | --conf=spark.archives=* | -c=spark.archives=*) archives=${value#spark.archives=} ;;
    --deploy-mode=* | --conf=spark.submit.deployMode=* | -c=spark.submit.deployMode=*)
        mode=${value#spark.submit.deployMode=} ;;
    esac
    submit+=("$option" "$value")
done
[ $# -gt 0 ] || { usage >&2 && exit 2; }

# No Python of ours looks for modules in the current folder, nor beside the file it runs.
export PYTHONSAFEPATH=1
python=$root/.venv/bin/python
[ -x "$python" ] || python=$(command -v python3)
if [ -z "${PYSPARK_PYTHON:-}" ]; then
    case $archives in
    *"#"*) name=${archives#*#} && export PYSPARK_PYTHON=./${name%%,*}/bin/python ;;
    *) [ "$mode" = cluster ] || export PYSPARK_PYTHON=$python ;;
    esac
fi
# With --deploy-mode cluster the driver runs elsewhere, where this machine's Python need not be.
[ "$mode" = cluster ] || export PYSPARK_DRIVER_PYTHON="${PYSPARK_DRIVER_PYTHON:-$python}"

if [ -n "${SPARK_HOME:-}" ]; then
    spark_submit=$SPARK_HOME/bin/spark-submit
elif ! spark_submit=$(command -v spark-submit); then
    SPARK_HOME=$("$python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)') ||
        { echo "spark-submit.sh: no Spark: set SPARK_HOME, or run make env" >&2 && exit 2; }
    export SPARK_HOME
    spark_submit=$SPARK_HOME/bin/spark-submit
fi
if [ -z "${JAVA_HOME:-}" ] && java_home=$(PYTHONPATH=$root "$python" -m reput.jobs.engines.java 2>/dev/null); then
    export JAVA_HOME=$java_home
fi

zip=$("$python" "$root/scripts/make_zip.py")
exec "$spark_submit" --properties-file "$root/conf/spark.properties" --load-spark-defaults \
    --py-files "$zip$py_files" ${submit[@]+"${submit[@]}"} "$root/reput/__main__.py" "$@"
