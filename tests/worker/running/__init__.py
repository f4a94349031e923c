"""Tests of the tools that run processes, search and fetch."""
