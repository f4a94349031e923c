"""`ops/bench`: named benchmarks, one file each.

A benchmark is a module in this package with a `BENCHMARK`. Its `sample` takes one figure of each variant,
so over the runs they alternate (A B A B): noise hits them alike, and their ratio means something.
"""
