"""The front: speaks ACP, routes sessions to workers, keeps them alive. Runs no tool and no model."""
