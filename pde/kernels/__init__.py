"""The numba modules: functions over plain arrays, no classes, no closures, one decorator."""
