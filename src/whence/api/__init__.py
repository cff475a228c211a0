"""What applications call: join a cluster, open groups, publish, take."""
