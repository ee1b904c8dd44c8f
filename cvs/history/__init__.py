"""What a run leaves behind: event types, codec, validation, merge."""
