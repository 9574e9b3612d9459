"""HTTP only: read the request, call one service function, render its result."""
