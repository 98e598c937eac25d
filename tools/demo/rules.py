"""The sentences of the bulletins: a synchronous grammar, each rule with an English and a Chinese side.

    ("{fall} will fall {where} {when}", "{when}{where}将有{fall}")

`{fall}` is a symbol, and both sides of a rule share its expansion; the Chinese side may move it or repeat it ("it" and
"they" become their noun). A digit distinguishes two slots of the same symbol: `{place2}`.
No sentence ends in "km/h": sentence splitters miss a full stop after it.
Numbers are symbols without rules; `grammar` draws them.
"""

from tools.demo import lexicon

Rules = tuple[tuple[str, str], ...]

WORDS: dict[str, Rules] = {
    "place": lexicon.PLACES,
    "region": lexicon.REGIONS,
    "day": lexicon.DAYS,
    "part": lexicon.PARTS_OF_DAY,
    "direction": lexicon.DIRECTIONS,
    "quarter": lexicon.QUARTERS,
    "count": lexicon.SMALL_COUNTS,
    "sky": lexicon.SKIES,
    "fall": lexicon.PRECIPITATION,
    "showers": lexicon.SHOWERS,
    "haze": lexicon.OBSCURATION,
    "strength": lexicon.STRENGTHS,
    "system": lexicon.SYSTEMS,
    "warning": lexicon.WARNINGS,
    "advice": lexicon.ADVICE,
}

RULES: dict[str, Rules] = {
    # Places.
    "area": (
        ("{place}", "{place}"),
        ("{place}", "{place}"),
        ("{region}", "{region}"),
        ("{quarter} {place}", "{place}{quarter}"),
        ("the hills {direction} of {place}", "{place}以{direction}的丘陵"),
        ("the villages {direction} of {place}", "{place}以{direction}的村庄"),
        ("the valley between {place} and {place2}", "{place}与{place2}之间的山谷"),
    ),
    "where": (
        ("in {area}", "{area}"),
        ("in {area}", "{area}"),
        ("near {place}", "{place}附近"),
        ("between {place} and {place2}", "{place}与{place2}之间"),
        ("in {place} and {place2}", "{place}和{place2}"),
        ("along the coast {direction} of {place}", "{place}以{direction}的沿海"),
    ),
    "road": (
        ("the road to {place}", "通往{place}的道路"),
        ("the road from {place} to {place2}", "从{place}到{place2}的道路"),
        ("the pass above {place}", "{place}上方的山口"),
        ("the bridge at {place}", "{place}的桥梁"),
        ("the tunnel {direction} of {place}", "{place}以{direction}的隧道"),
    ),
    "route": (
        ("{road}", "{road}"),
        ("{road}", "{road}"),
        ("the railway between {place} and {place2}", "{place}与{place2}之间的铁路"),
        ("the airport at {place}", "{place}的机场"),
        ("the harbour at {place}", "{place}的港口"),
    ),
    # Times.
    "moment": (
        ("{day} {part}", "{day}{part}"),
        ("{day} {part}", "{day}{part}"),
        ("noon on {day}", "{day}中午"),
        ("midnight on {day}", "{day}午夜"),
        ("{clock} on {day}", "{day}{clock}"),
        ("sunrise on {day}", "{day}日出"),
    ),
    "at": (
        ("on {day}", "{day}"),
        ("on {day} {part}", "{day}{part}"),
        ("early on {day}", "{day}清晨"),
        ("late on {day}", "{day}深夜"),
        ("before {moment}", "{moment}之前"),
        ("after {moment}", "{moment}之后"),
        ("at {clock} on {day}", "{day}{clock}"),
        ("within {count} hours", "{count}小时内"),
    ),
    "during": (
        ("from {moment} until {clock} the next day", "从{moment}到次日{clock}"),
        ("between {clock_span} on {day}", "{day}{clock_span}"),
        ("for {hours} hours from {moment}", "从{moment}起{hours}小时内"),
    ),
    "when": (
        ("{at}", "{at}"),
        ("{at}", "{at}"),
        ("{during}", "{during}"),
    ),
    # Amounts.
    "degrees": (
        ("{warmth} degrees", "{warmth}度"),
        ("minus {frost} degrees", "零下{frost}度"),
    ),
    "speed": (
        ("{kmh} km/h", "每小时{kmh}公里"),
        ("{kmh_span} km/h", "每小时{kmh_span}公里"),
    ),
    "rainfall": (
        ("{mm} mm", "{mm}毫米"),
        ("{mm_span} mm", "{mm_span}毫米"),
    ),
    "snowfall": (
        ("{cm} cm", "{cm}厘米"),
        ("{cm_span} cm", "{cm_span}厘米"),
    ),
    # Clauses about the future.
    "clause": (
        ("{weather}", "{weather}"),
        ("{weather}", "{weather}"),
        ("{measure}", "{measure}"),
        ("{measure}", "{measure}"),
        ("{movement}", "{movement}"),
        ("{effect}", "{effect}"),
    ),
    "weather": (
        ("{fall} will fall {where} {when}", "{when}{where}将有{fall}"),
        ("{fall} will spread from {place} to {place2} {at}", "{at}{fall}将从{place}扩展到{place2}"),
        ("{fall} will turn to {fall2} {where} {at}", "{at}{where}的{fall}将转为{fall2}"),
        ("{showers} will develop {where} {at}", "{at}{where}将出现{showers}"),
        ("{showers} will move from {place} toward {place2} {at}", "{at}{showers}将从{place}移向{place2}"),
        ("{haze} will form {where} {at}", "{at}{where}将形成{haze}"),
        ("{haze} will not lift {where} {when}", "{when}{where}的{haze}不会消散"),
        ("skies will be {sky} {where} {when}", "{when}{where}天空{sky}"),
        ("no {fall} is expected {where} {when}", "{when}{where}预计没有{fall}"),
        (
            "{strength} {direction} winds will blow across {area} {when}",
            "{when}{area}将刮起{strength}{direction}风",
        ),
        ("the wind will turn {direction} {where} {at}", "{at}{where}风向将转{direction}"),
    ),
    "measure": (
        ("the temperature in {area} will fall to {degrees} {at}", "{at}{area}的气温将降至{degrees}"),
        ("the temperature in {area} will rise to {degrees} {at}", "{at}{area}的气温将升至{degrees}"),
        (
            "the temperature in {place} will change from {degrees} to {degrees2} {at}",
            "{at}{place}的气温将从{degrees}变为{degrees2}",
        ),
        ("winds {where} will reach {speed} {when}", "{when}{where}风速将达到{speed}"),
        ("gusts of {speed} are expected {where} {when}", "{when}{where}预计有{speed}的阵风"),
        ("gusts {where} will exceed {kmh} km/h {when}", "{when}{where}的阵风将超过每小时{kmh}公里"),
        ("{rainfall} of rain will fall {where} {when}", "{when}{where}将降雨{rainfall}"),
        ("{snowfall} of snow will accumulate {where} {when}", "{when}{where}积雪将达{snowfall}"),
        (
            "the chance of {fall} {where} will be {percent}% {when}",
            "{when}{where}出现{fall}的概率为{percent}%",
        ),
        ("visibility {where} will drop to {metres} metres {at}", "{at}{where}能见度将降至{metres}米"),
        (
            "the pressure at {place} will fall to {pressure} hPa {at}",
            "{at}{place}的气压将降至{pressure}百帕",
        ),
        ("the river at {place} will rise by {cm} cm {at}", "{at}{place}的河水将上涨{cm}厘米"),
        ("waves off {place} will build to {waves} metres {at}", "{at}{place}近海的浪高将增至{waves}米"),
        (
            "the humidity in {area} will remain above {percent}% {when}",
            "{when}{area}的湿度将保持在{percent}%以上",
        ),
    ),
    "movement": (
        ("a {system} will move from {place} to {place2} {at}", "{at}一个{system}将从{place}移到{place2}"),
        ("a {system} will cross {area} {at}", "{at}一个{system}将经过{area}"),
        (
            "a {system} will approach {area} from the {direction} {at}",
            "{at}一个{system}将从{direction}面接近{area}",
        ),
        ("a {system} will weaken over {area} {at}", "{at}一个{system}将在{area}上空减弱"),
        (
            "the {system} that crossed {area} on {day} will reach {place} {at}",
            "{day}经过{area}的{system}将于{at}到达{place}",
        ),
        (
            "a {system} bringing {strength} {direction} winds will reach {area} {at}",
            "{at}一个带来{strength}{direction}风的{system}将到达{area}",
        ),
    ),
    "effect": (
        ("{route} will be closed {when}", "{when}{route}将封闭"),
        ("{route} will not reopen before {moment}", "{route}在{moment}之前不会重新开放"),
        (
            "{route}, which was closed on {day}, will reopen after {moment}",
            "{day}封闭的{route}将在{moment}之后重新开放",
        ),
        ("a {warning} will be in effect for {area} {when}", "{when}{area}将实施{warning}"),
        ("the {warning} for {area} will end at {clock} on {day}", "{area}的{warning}将于{day}{clock}结束"),
        ("the ferry from {place} to {place2} will not run {when}", "{when}从{place}到{place2}的渡轮将停运"),
        ("schools in {area} will remain closed {when}", "{when}{area}的学校将继续停课"),
    ),
    # Conditions: after "if" and "unless".
    "condition": (
        ("the wind turns {direction} {at}", "{at}风向转{direction}"),
        ("the temperature in {place} falls below {degrees} {at}", "{at}{place}的气温降到{degrees}以下"),
        ("more than {mm} mm of rain falls {where} {when}", "{when}{where}降雨超过{mm}毫米"),
        ("winds {where} exceed {kmh} km/h {when}", "{when}{where}风速超过每小时{kmh}公里"),
        ("the river at {place} rises above {waves} metres {at}", "{at}{place}的河水涨到{waves}米以上"),
        ("the pressure at {place} falls by {drop} hPa {at}", "{at}{place}的气压下降{drop}百帕"),
        ("{haze} persists {where} {when}", "{when}{where}的{haze}持续不散"),
        ("the {system} reaches {place} {at}", "{at}{system}到达{place}"),
        ("the {system} does not weaken {at}", "{at}{system}没有减弱"),
        (
            "the {system} that is now over {area} moves {direction} {at}",
            "{at}目前位于{area}上空的{system}向{direction}移动",
        ),
    ),
    # Clauses about the present and the past.
    "ongoing": (
        ("a {system} is moving toward {area}", "一个{system}正移向{area}"),
        ("the {system} over {area} is weakening", "{area}上空的{system}正在减弱"),
        ("{strength} {direction} winds are blowing across {area}", "{area}正刮着{strength}{direction}风"),
        ("{fall} is spreading from {place} to {place2}", "{fall}正从{place}扩展到{place2}"),
        ("{haze} is covering {area}", "{haze}正笼罩{area}"),
        ("the pressure at {place} is rising", "{place}的气压正在上升"),
    ),
    "record": (
        ("{rainfall} of rain fell {where} on {day} {part}", "{day}{part}{where}降雨{rainfall}"),
        ("{snowfall} of snow fell {where} on {day}", "{day}{where}降雪{snowfall}"),
        (
            "the highest temperature on {day} was {degrees} in {place} and {degrees2} in {place2}",
            "{day}的最高气温在{place}为{degrees}，在{place2}为{degrees2}",
        ),
        (
            "the lowest temperature in {place} was {degrees}, {count} degrees lower than in {place2}",
            "{place}的最低气温为{degrees}，比{place2}低{count}度",
        ),
        (
            "{place} recorded a gust of {kmh} km/h at {clock} on {day}",
            "{place}在{day}{clock}录得每小时{kmh}公里的阵风",
        ),
        ("{showers} crossed {area} on {day} {part}", "{day}{part}{showers}经过{area}"),
        ("{route} was closed on {day} because of {haze}", "{day}{route}因{haze}封闭"),
    ),
    # Whole sentences, without their full stop.
    "overview": (
        ("{ongoing}", "{ongoing}"),
        ("{record}", "{record}"),
        ("{record}", "{record}"),
        ("{movement}", "{movement}"),
        ("{ongoing}, and {clause}", "{ongoing}，{clause}"),
        ("because {ongoing}, {clause}", "由于{ongoing}，{clause}"),
        ("{clause} because {ongoing}", "由于{ongoing}，{clause}"),
        (
            "as the {system} moves from {place} toward {place2}, {clause}",
            "随着{system}从{place}移向{place2}，{clause}",
        ),
    ),
    "forecast": (
        ("{clause}", "{clause}"),
        ("{clause}", "{clause}"),
        ("{clause}", "{clause}"),
        ("{clause}, and {clause2}", "{clause}，{clause2}"),
        ("{clause}, but {clause2}", "{clause}，但{clause2}"),
        ("although {clause}, {clause2}", "虽然{clause}，但是{clause2}"),
        ("{clause}; elsewhere, {clause2}", "{clause}；其他地方，{clause2}"),
        ("after the {system} passes {place}, {clause}", "{system}经过{place}之后，{clause}"),
        ("forecasters expect that {clause}", "预报员预计{clause}"),
        ("there is a {percent}% chance that {clause}", "{clause}的可能性为{percent}%"),
        ("it is unlikely that {clause}", "{clause}的可能性不大"),
    ),
    "hazard": (
        ("if {condition}, {clause}", "如果{condition}，{clause}"),
        ("{clause} if {condition}", "如果{condition}，{clause}"),
        ("{clause} unless {condition}", "除非{condition}，否则{clause}"),
        ("if {condition} and {condition2}, {clause}", "如果{condition}并且{condition2}，{clause}"),
        ("if {condition}, {clause}, and {clause2}", "如果{condition}，{clause}，{clause2}"),
        (
            "if {condition}, {fall} will fall {where}, and {route} will be closed until it stops",
            "如果{condition}，{where}将有{fall}，{route}将封闭至{fall}停止",
        ),
        (
            "{showers} will develop {where} {at}, and {route} will be closed until they end",
            "{at}{where}将出现{showers}，{route}将封闭至{showers}结束",
        ),
        ("people in {area} should {advice} {when}", "{when}{area}的居民应{advice}"),
        ("if {condition}, people in {area} should {advice}", "如果{condition}，{area}的居民应{advice}"),
        ("drivers on {road} should expect {haze} {when}", "{when}{road}上的司机应留意{haze}"),
        ("{effect}", "{effect}"),
        ("{effect} because {ongoing}", "由于{ongoing}，{effect}"),
    ),
    # Titles: a line above a bulletin.
    "title": (
        ("Weather bulletin for {place}, {moment}", "{place}天气公报，{moment}"),
        ("Weather forecast for {place} and {place2}, {moment}", "{place}和{place2}天气预报，{moment}"),
        ("Marine forecast for {region}, {moment}", "{region}海洋预报，{moment}"),
        (
            "Road report for {place}, {moment} and the next {hours} hours",
            "{place}路况通报，{moment}及其后{hours}小时",
        ),
        (
            "Special weather statement: {warning} for {area}, {moment}",
            "特别天气通告：{area}{warning}，{moment}",
        ),
    ),
}
