-- expect: deadline
while true do end
function F() end
