"""HTTP only: read the request, call one service function, show what it gave."""
