"""QUERY -> HITS: pure functions that fuse, route, collapse and expand ranked lists."""
