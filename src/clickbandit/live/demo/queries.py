"""Invented queries of an invented shop: what is on offer, and what people really want.

Items are in the order of their attraction, the most attractive first. The shop does not know that: it offers what it
wants to be rid of first.
"""

from typing import NamedTuple

ATTRACTIONS = (
    (0.85, 0.4, 0.35, 0.1, 0.03, 0.02, 0.01),
    (0.9, 0.2, 0.12, 0.08, 0.04, 0.02, 0.01),
    (0.6, 0.55, 0.3, 0.25, 0.02, 0.02, 0.01),
    (0.8, 0.5, 0.3, 0.2, 0.02, 0.01, 0.01),
)
"""Of the items of a query: far enough apart that batches split within a minute. BatchRank first splits off one or
three items, or loses three, after some 260 to 1,300 impressions."""
EXAMINATION = (1.0, 0.8, 0.64, 0.5)
"""In the position-based model: the chance that a position is looked at."""
POSITIONS = len(EXAMINATION)
HORIZON = 5000
"""Of a demo that runs some minutes."""


class DemoQuery(NamedTuple):
    """A query, its items in the order of their attraction, and how often it is asked for compared with others."""

    name: str
    items: tuple[str, ...]
    attraction: tuple[float, ...]
    traffic: float

    @property
    def offered(self) -> tuple[str, ...]:
        """The items as the shop would show them: there is much to learn."""
        return self.items[::-1]


_SHOP = """
red running shoes: Scarlet Sprint 3, Ruby Racer, Crimson Cloud, Cherry Trail, Brick Trainer, Slippers, Rust Boots
wireless headphones: Hush Over-Ear, Pebble Buds, Hush Mini, Studio Nine, Bass Bucket, Wired Classic, Ear Muffs
chocolate birthday cake: Triple Fudge, Cocoa Crown, Mocha Tower, Berry Cocoa, Carrot Cake, Lemon Tart, Rice Waffles
garden hose: Flex 25 m, Flex 15 m, Spiral Green, Brass Nozzle Set, Hose Reel, Watering Can, Rain Gauge
blue summer dress: Azure Wrap, Sky Linen, Navy Midi, Teal Shirt Dress, White Maxi, Denim Skirt, Wool Coat
espresso machine: Barista One, Crema Duo, Lever Classic, Capsule Pop, Milk Frother, Tea Kettle, Toaster
tent for two: Ridge 2, Feather Dome, Lake Cabin, Family 6, Bivy Bag, Tarp, Camp Chair
mystery novel: The Ninth Key, Harbour Fog, A Quiet Alibi, Cold Ledger, Space Pilots, Knitting Basics, Tax Law
desk lamp: Arc LED, Clamp Light, Banker Green, Paper Globe, Floor Lamp, Candle Set, Extension Cord
dog bed: Cloud Nest L, Memory Paws, Nest M, Cooling Mat, Cat Tree, Bird House, Fish Food
board game for kids: Treasure Trail, Zoo Train, Pirate Peek, Word Hop, Poker Set, Chess Clock, Sudoku Pad
rain jacket: Storm Shell, Drizzle Lite, Harbour Coat, Poncho, Fleece, Umbrella, Sun Hat
bluetooth speaker: Boom Can, Shower Disc, Party Block, Shelf Pair, Radio Retro, Headlamp, Cable Kit
yoga mat: Grip Pro, Cork Calm, Travel Fold, Foam Basic, Rug, Dumbbells, Jump Rope
pocket knife: Trail Blade, Mini Tool, Carver, Scout Classic, Letter Opener, Scissors, Spoon
baby stroller: City Glide, Fold Fast, Jogger, Twin Ride, Car Seat, Play Pen, Doll Pram
office chair: Mesh Ergo, Leather Lift, Task Basic, Kneeling Chair, Bar Stool, Bean Bag, Foot Rest
electric toothbrush: Sonic White, Pulse Mini, Kids Buzz, Travel Sonic, Brush Heads, Floss, Comb
bird feeder: Window Nook, Squirrel Proof, Tube Feeder, Seed Bell, Bird Bath, Bee Hotel, Garden Gnome
thermos bottle: Steel 750, Slim 500, Coffee Cup, Kids Flask, Lunch Box, Glass Jug, Ice Tray
"""


def _read() -> tuple[DemoQuery, ...]:
    queries = []
    for k, line in enumerate(_SHOP.strip().splitlines()):
        name, _, items = line.partition(": ")
        queries.append(
            DemoQuery(name, tuple(items.split(", ")), ATTRACTIONS[k % len(ATTRACTIONS)], 1 / (k + 1))
        )
    return tuple(queries)


QUERIES = _read()
