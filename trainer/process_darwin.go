package trainer

// maxRSSUnit is the unit of getrusage's ru_maxrss, in bytes.
const maxRSSUnit = 1
