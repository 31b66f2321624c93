"""The engines that run a job's tasks: processes of this machine (`local`), or Spark (`spark`)."""
