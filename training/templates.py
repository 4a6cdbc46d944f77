"""Sentence templates of the generated text.

{e} is an entity ("the red door", "Kara Belford"), {E} the same at a sentence's start, {a} an attribute, {v} its
value. Entity and attribute stand before the value in all of them: a causal model can then know at the value
whose it is. {x} is a made-up word in each sentence anew: what stands there must not matter. Templates and wordings under HELD_OUT are never trained on.
"""

STATEMENTS = """
The {a} of {e} is {v}.
{E} has the {a} {v}.
As for {e}, the {a} is {v}.
It is known that the {a} of {e} is {v}.
Everyone agrees that the {a} of {e} is {v}.
In the records the {a} of {e} is {v}.
According to the letter, the {a} of {e} is {v}.
Note that the {a} of {e} is {v}.
The {a} given for {e} is {v}.
The {a} listed for {e} is {v}.
For {e} the {a} is {v}.
About {e}: the {a} is {v}.
{E} is listed with the {a} {v}.
{E} was registered with the {a} {v}.
Remember that {e} has the {a} {v}.
Please write down that the {a} of {e} is {v}.
The clerk wrote that the {a} of {e} is {v}.
Somebody said that {e} has the {a} {v}.
The report gives the {a} of {e} as {v}.
The {a} which belongs to {e} is {v}.
The right {a} for {e} is {v}.
One should know that the {a} of {e} is {v}.
On the label of {e} the {a} reads {v}.
Next to {e} stands the {a}: {v}.
When asked about {e}, they named the {a} {v}.
A note says that {e} has the {a} {v}.
It turned out that the {a} of {e} is {v}.
We found that the {a} of {e} is {v}.
The {a} of {e} has always been {v}.
The {a} of {e}, as far as we know, is {v}.
The {a} of {e} (see the list) is {v}.
{E} shows the {a} {v}.
{E} still has the {a} {v}.
Under {e} in the index, the {a} is {v}.
Entry for {e}, {a}: {v}.
{E} - {a}: {v}.
With {e} goes the {a} {v}.
No one doubts that {e} has the {a} {v}.
By all accounts the {a} of {e} is {v}.
The guide calls the {a} of {e} {v}.
The owner told us that the {a} of {e} is {v}.
To be exact, the {a} of {e} is {v}.
The {a} we have for {e} is {v}.
What {e} has as {a} is {v}.
{E} has one {a}: {v}.
All know {e} by the {a} {v}.
There is a line about {e} with the {a} {v}.
Here it says that the {a} of {e} is {v}.
In the file of {e} the {a} is {v}.
In my notes {e} has the {a} {v}.
{E}, whose {a} is {v}, is well known.
{E} ({a}: {v}) was mentioned twice.
You may know that the {a} of {e} is {v}.
I remember the {a} of {e}: {v}.
I was told the {a} of {e}, it is {v}.
Since last year the {a} of {e} is {v}.
The only {a} of {e} is {v}.
We call the {a} of {e} {v}.
They wrote the {a} of {e} on the wall: {v}.
Everybody who knows {e} knows the {a}, {v}.
Of {e} it is said that the {a} is {v}.
In the case of {e}, the {a} is {v}.
The {a} that {e} has is {v}.
The {a} for {e} was found to be {v}.
The {a} of {e} must be {v}.
The {a} of {e} happens to be {v}.
The {a} of {e} = {v}.
{e} / {a} / {v}
{E}. The {a} is {v}.
{E}: {a} {v}.
{E} comes with the {a} {v}.
{E} goes by the {a} {v}.
{E} got the {a} {v} at the start.
{E} is known for the {a} {v}.
If you ask for {e}, the {a} is {v}.
Look at {e}: the {a} is {v}.
Then there is {e} with the {a} {v}.
Those who met {e} report the {a} {v}.
The teacher explained that the {a} of {e} is {v}.
The newspaper gives {e} the {a} {v}.
My sister believes that the {a} of {e} is {v}.
Without doubt the {a} of {e} is {v}.
{E} was noted with the {a} {v}.
{E} was put down with the {a} {v}.
{E} was booked with the {a} {v}.
{E} was described with the {a} {v}.
{E} was found with the {a} {v}.
{E} was announced with the {a} {v}.
{E} appeared with the {a} {v}.
{E} arrived with the {a} {v}.
{E} is shown with the {a} {v}.
{E} is given with the {a} {v}.
{E} is written down with the {a} {v}.
{E} stands in the index with the {a} {v}.
{E} may be found under the {a} {v}.
{E} was always seen with the {a} {v}.
{E} will be remembered with the {a} {v}.
{E} had the {a} {v} from the start.
{E} was {x}ed with the {a} {v}.
{E} was {x}ed with the {a} {v}.
{E} is {x}ed with the {a} {v}.
{E} {x}s with the {a} {v}.
{E} {x}ed the {a} {v}.
The {x} says that the {a} of {e} is {v}.
The {x} {x}ed that the {a} of {e} is {v}.
In the {x} the {a} of {e} is {v}.
{x} {e}, the {a} is {v}.
On the {x}, {e} has the {a} {v}.
The {a} {x}ed for {e} is {v}.
The {a} of {e} in the {x} is {v}.
They {x}ed that the {a} of {e} is {v}.
""".strip().split("\n")

HELD_OUT_STATEMENTS = """
The book says that the {a} of {e} is {v}.
Regarding {e}, the {a} is {v}.
{E} was entered with the {a} {v}.
They told me that the {a} of {e} is {v}.
On the list, {e} has the {a} {v}.
The {a} recorded for {e} is {v}.
""".strip().split("\n")

UPDATES = """
The {a} of {e} is now {v}.
Since then the {a} of {e} has been changed to {v}.
The {a} of {e} was changed to {v}.
{E} now has the {a} {v}.
Later the {a} of {e} became {v}.
Correction: the {a} of {e} is {v}.
From today the {a} of {e} is {v}.
Then {e} got the {a} {v}.
Now the {a} of {e} is {v}.
By the end of the year the {a} of {e} was {v}.
The new {a} of {e} is {v}.
{E} has got another {a}: {v}.
At last the {a} of {e} was set to {v}.
Some days later {e} had the {a} {v}.
The {a} of {e} has since become {v}.
Today the {a} of {e} is {v}, no longer what it was.
It changed again: the {a} of {e} is {v}.
Finally {e} received the {a} {v}.
The {a} of {e} turned into {v}.
Next the {a} of {e} was {v}.
{E} was given the {a} {v}.
From then on the {a} of {e} was {v}.
The {a} of {e} is {v} these days.
The {a} of {e} is {v} at present.
The {a} of {e} is {v} by now.
Afterwards the {a} of {e} was {v}.
{x} that the {a} of {e} was {v}.
The {a} of {e} is {v} {x} {x}.
The {x} {a} of {e} is {v}.
""".strip().split("\n")

HELD_OUT_UPDATES = """
After that the {a} of {e} was {v}.
The {a} of {e} is {v} as of now.
""".strip().split("\n")

# What may stand around a statement {s} in training: wordings multiply.
FRAMES = """
{P} said: {s}
News from {t}: {s}
{d}: {s}
Number {k}. {s}
{s} So says {P}.
{s} That was in {y}.
{s} The {j} agreed.
A letter from {t} came. {s}
"{s}"
({s})
""".strip().split("\n")

QUESTIONS = """
What is the {a} of {e}?
What was the {a} of {e}?
Tell me the {a} of {e}.
Name the {a} of {e}.
Do you know the {a} of {e}?
I need the {a} of {e}.
Please look up the {a} of {e}.
Which {a} does {e} have?
""".strip().split("\n")

UPDATE_QUESTIONS = """
What now is the {a} of {e}?
What is the latest {a} of {e}?
Which {a} does {e} have now?
""".strip().split("\n")

# Two-step chains: how a thing is bound to a second one, how that one is to the answer, and the question.
CHAINS = (
    (
        ("{E} is kept in {m}.", "{E} lies in {m}.", "You will find {e} in {m}."),
        ("{M} stands in {v}.", "{M} is in {v}.", "They put {m} in {v}."),
        ("In which place is {e}?", "Where do I have to go for {e}?"),
    ),
    (
        ("{E} works for {m}.", "{E} is employed by {m}.", "Since spring {e} works for {m}."),
        ("{M} has its office in {v}.", "{M} is based in {v}.", "The people of {m} work in {v}."),
        ("In which town does {e} work?", "Where is the office of {e}?"),
    ),
    (
        ("{E} sails on {m}.", "{E} is in the crew of {m}.", "{E} serves on {m}."),
        ("The captain of {m} is {v}.", "{M} is under the command of {v}.", "{M} is led by {v}."),
        ("Who is the captain of {e}?", "Under whose command is {e}?"),
    ),
)

COUNTED = ("{E} went to {v}.", "{E} was seen in {v}.", "That day {e} visited {v}.")
COUNT_QUESTIONS = ("How often did {e} visit {v}?", "How many times was {e} in {v}?")
LISTS = ("The list of {e}: {v}.", "On the list of {e} are {v}.", "{E} wrote this list: {v}.")
LIST_QUESTIONS = ("What is {n} on the list of {e}?", "Which word is {n} on the list of {e}?")
FUNCTION_QUESTIONS = ("What does {f}() return?", "Which value does {f}() return?")

FILLERS = """
{P} walked from {t} to {u} with a {o}.
In {t} it rained for {n} days.
The {j} bought a {c} {o} and some {g}.
{P} talked with {q} about the {l}.
On {d} the market of {t} was full of {g}.
A {c} {m} slept under the {o}.
{P} sold {k} {s} of {g} to a {j}.
The road to {t} is long and {b}.
Nobody in {t} had seen a {m} like that.
{P} put the {b} {o} next to a {o2}.
They ate {h} and waited for {q}.
At noon the {j} came back to the {l}.
The {m} ran across the {l} and was gone.
{P} played the {i} until late on {d}.
A ship with {g} left {t} in {y}.
It was {y} and the {l} was still closed.
The word {w} was painted on a {o}.
{P} read about {w} and {w2} in a {b} book.
Two {j}s from {t} repaired the {l}.
{P} counted {k} steps from the {l} to the {o}.
The {c} paint on the {o} was still wet.
Some people say {w}, others say {w2}.
{P} could not find the {o} and asked {q}.
There was {h} for dinner on {d}.
The wind blew from {t} all through {y}.
Every {d} the {j} sweeps the {l}.
{P} entered the {l} with a list of {g}.
A letter regarding the {o} came after {d}.
The {j} recorded all that was told about {t}.
Where was {P} as of {d}? In {t}, the book says.
They told {q} that the {m} was on the list.
""".strip().split("\n")
