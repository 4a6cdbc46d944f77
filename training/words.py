"""The words of the generated text: pools of nouns and names put together from syllables."""

from __future__ import annotations

COLOURS = """red blue green black white yellow brown grey pink purple orange crimson violet teal ivory scarlet
maroon turquoise beige lilac""".split()
ADJECTIVES = """old new small large tall short round square wooden iron golden silver broken quiet heavy light
dusty clean narrow wide painted hidden crooked polished folded locked striped""".split()
OBJECTS = """door gate box chest lamp table chair drawer cabinet shelf wagon boat barrel basket bottle clock mirror
statue bench desk stove kettle jar trunk ladder drum bell flag coat sword shield map letter book scroll carpet
curtain telescope engine violin""".split()
PLACES = """tower bridge library stable mill garden cellar attic kitchen harbour workshop chapel market school
barn office pantry station museum bakery""".split()
WORDS = """amber falcon cedar comet delta ember fjord garnet hazel indigo jasper kestrel lotus maple nectar onyx
pearl quartz raven saffron topaz umber willow xenon yarrow zephyr acorn birch coral dingo eagle fennel gecko
heron iris juniper koala lemur mango nutmeg otter panda quail robin spruce tiger walnut zebra apple banjo cobalt
dolphin elm fig ginger hornet jaguar kiwi lily mint olive poppy quince rhino sage thyme turtle vanilla wasp basil
clover daisy goose hippo jade lemon moth plum reed salmon tulip wren""".split()
ANIMALS = """dog cat horse goat parrot rabbit tortoise pigeon ferret donkey canary hamster sheep duck mule pony
lizard snake hen owl""".split()
DISHES = """soup stew pie bread curry salad rice dumplings pancakes noodles porridge pudding""".split()
FLAVOURS = """lentil onion pumpkin mushroom cheese barley tomato cabbage apple ginger lemon potato bean
carrot""".split()
JOBS = """baker carpenter doctor teacher sailor farmer painter lawyer pilot weaver tailor miller nurse plumber
gardener printer butcher singer surveyor blacksmith""".split()
INSTRUMENTS = """flute harp fiddle trumpet guitar piano cello drum organ banjo horn lute""".split()
CARGO = """salt wool timber coal grain copper cotton sugar tea wine paper glass marble rope leather silk""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November December""".split()
COUNTS = "zero one two three four five".split()
ORDINALS = "first second third fourth fifth".split()
UNITS = "grams pounds crowns miles litres steps".split()
FUNCTIONS = "get read find load count make pick scan fetch total".split()
NOUNS = "speed limit index offset width depth score level price weight size delay".split()

NAME_STARTS = """Ka Mo Te Li Sa Ro Vi Da Be No Ha Pe Jo Lu Fa Mi Ga Du Za Se Wi Or El An Il Ul Bra Kel Tor
Mar""".split()
NAME_ENDS = """ra na lo mir dan vek sia tor len ris bel go min ka das fin ro lia sek ven tha mon dil zan nor
lin""".split()
SURNAME_ENDS = """well ston ford berg field man son worth ley wick nell mer grave brook land dale ham by shaw
croft""".split()
TOWN_ENDS = """burg haven mouth bridge ton port gate minster dorf vale holm wold stead cliff moor""".split()
SHIP_ENDS = """Star Queen Spirit Hope Wind Dawn Pride Tide Rose Arrow""".split()
# Verbs and nouns at once, some of which filler has too.
ODD_STEMS = """walk paint talk wait rain visit count repair sail work start close order print pack wash load plant hand
mail turn lock fold seal sign stamp mark sketch post file search travel repeat collect gather present answer report
question""".split()
