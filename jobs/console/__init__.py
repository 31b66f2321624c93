"""What a person sees of a command: options, progress, texts and pictures."""
