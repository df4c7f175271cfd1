-- expect: deadline
local a, b
function a() return b() end
function b() return a() end
function F() return a() end
