"""What somebody could do to `reput`, or `reput` to somebody's files, by accident or on purpose."""
