"""MCP servers of a session: connections, tools, prompts. Each session has its own, in its own worker.

The SDK takes 1 to 2.6 s to import, so only `connection` and `remote` import it, and only a session that
has servers imports those, in a thread. A bad server costs its own tools and nothing else.
"""
