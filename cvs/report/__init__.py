"""What the judge found, told to people: one screen of text, one JSON object, one HTML page."""
