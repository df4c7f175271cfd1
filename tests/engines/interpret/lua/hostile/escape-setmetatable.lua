-- expect: script
function F() return setmetatable({}, {__tostring = function() while true do end end}) end
