-- require("fleet")
return {}
