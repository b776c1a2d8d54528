"""What the pages share: frame, look, formats, token views, and the door to the store and the bench."""
