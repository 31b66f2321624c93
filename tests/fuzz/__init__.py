"""Coverage-guided fuzzing with atheris of all that reads bytes which others wrote."""
