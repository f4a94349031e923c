"""Where workers come from: a forked zygote, a plain subprocess, or (in tests) this very process."""
