-- expect: deadline
function F() while true do pcall(pcall, pcall, error) end end
