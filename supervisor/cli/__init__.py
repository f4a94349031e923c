"""What a person types. Commands drive the agent over ACP or read files; they hold no logic of either."""
