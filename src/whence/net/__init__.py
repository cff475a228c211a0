"""The asyncio driver: the same members as in the simulator, on real clocks, sockets and disks."""
