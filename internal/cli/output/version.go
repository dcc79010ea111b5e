package output

// Version is the version of the program. The root command sets it.
var Version = "development"
