"""A session's own process: the agent loop, the models and the tools."""
