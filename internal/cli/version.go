package cli

// version is the version of the program. The root command sets it.
var version = "development"
