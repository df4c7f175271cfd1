-- expect: deadline
function F() return (string.gsub('aaa', 'a', function() while true do end end)) end
