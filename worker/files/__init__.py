"""Files as the tools treat them: opened without blocking, changed byte for byte, written whole or not."""
