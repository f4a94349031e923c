"""`ops/chaos`: sessions with tools stream against the model's double while processes are killed.

`plan` says what happens when (pure, by seed), `agent` is the client's end of one front, `player` keeps one
session in turns, `striker` carries out the plan, `verdict` judges what was seen (pure), `run` puts these
together. It looks at the product from outside only: stdio, files, processes.
"""
