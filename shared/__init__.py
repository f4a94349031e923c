"""What the front and its workers must agree on: wire lines, link frames, stored sessions, settings."""
