-- expect: deadline
local function again() return again() end
function F() return again() end
