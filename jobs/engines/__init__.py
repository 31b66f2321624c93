"""What runs a job's tasks: processes of this machine (`local`), or Spark (`spark`)."""
