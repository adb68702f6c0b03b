-- Links between pages of the repository become links between pages of the site; a link to another
-- file of the repository leads to its copy in files/, and one to a folder is text.
local pages = {}
for name in string.gmatch(os.getenv('SITE_PAGES') or '', '%S+') do pages[name] = true end
local folder = os.getenv('SITE_FOLDER') or '.' -- of the page, in the repository
local copied = io.open(os.getenv('SITE_COPIED') or '/dev/null', 'a')

-- "docs/../README.md" to "README.md"
local function path_of(target)
    local parts = {}
    for part in string.gmatch(folder .. '/' .. target, '[^/]+') do
        if part == '..' then table.remove(parts)
        elseif part ~= '.' then table.insert(parts, part) end
    end
    return table.concat(parts, '/')
end

function site_name(path) -- "docs/run.md": "run"; "docs/start.md" is the first page
    if path == 'docs/start.md' then return 'index' end
    return string.lower(string.match(path, '([^/]*)%.md$'))
end

function Link(link)
    local target, anchor = string.match(link.target, '^([^#]*)(.*)$')
    if target == '' or string.match(target, '^%a+:') then return nil end
    local path = path_of(target)
    if pages[path] then
        link.target = site_name(path) .. '.html' .. anchor
        return link
    end
    local file = io.open(path, 'r')
    if file == nil or file:read(0) == nil then return link.content end -- a folder
    file:close()
    copied:write(path, '\n')
    link.target = 'files/' .. path
    return link
end

function Image(image)
    local path = path_of(image.src)
    copied:write(path, '\n')
    image.src = 'files/' .. path
    return image
end

-- the comments that say how a block is tested
function RawBlock(block)
    if string.match(block.text, '^%s*<!%-%-') then return {} end
end
