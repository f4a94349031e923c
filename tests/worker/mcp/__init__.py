"""MCP servers as the worker has them: real processes and sockets, good ones of the SDK and bad ones."""
