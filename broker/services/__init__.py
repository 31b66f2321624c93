"""What a broker's services do with messages that wait, done once and by a job."""
