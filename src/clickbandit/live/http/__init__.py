"""The ranker over HTTP: a service, what it says and takes, and a client."""
