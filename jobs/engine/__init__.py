"""What commands share: plan, the Spark queries, link, damage, publish, staging."""
