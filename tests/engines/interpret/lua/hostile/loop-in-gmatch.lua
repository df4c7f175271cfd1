-- expect: deadline
function F() while true do for _ in string.gmatch('a b c', '%a') do end end end
