"""The words of the bulletins: for each symbol, its English and Chinese forms.

Knows: words. Does not know: how a sentence is built from them (`grammar`).
No two entries of a symbol share their English, so that every translation is unique.
"""

Words = tuple[tuple[str, str], ...]

PLACES: Words = (
    ("Arden", "阿登"), ("Ashford", "阿什福德"), ("Belmont", "贝尔蒙"), ("Brookfield", "布鲁克菲尔德"),
    ("Clearwater", "清水镇"), ("Corwen", "科文"), ("Drayton", "德雷顿"), ("Dunmore", "邓莫尔"),
    ("Eastleigh", "伊斯特利"), ("Elsworth", "埃尔斯沃思"), ("Fairhaven", "费尔黑文"), ("Foxton", "福克斯顿"),
    ("Glenrock", "格伦罗克"), ("Granby", "格兰比"), ("Harlow", "哈洛"), ("Hazelton", "黑兹尔顿"),
    ("Invermay", "因弗梅"), ("Ironbridge", "铁桥镇"), ("Jasper", "贾斯珀"), ("Kelso", "凯尔索"),
    ("Kingsley", "金斯利"), ("Larkhill", "拉克希尔"), ("Lowell", "洛厄尔"), ("Maplewood", "枫林镇"),
    ("Midvale", "米德韦尔"), ("Newhaven", "纽黑文"), ("Northgate", "北门镇"), ("Oakham", "奥克姆"),
    ("Orford", "奥福德"), ("Penrith", "彭里斯"), ("Pinehurst", "松林镇"), ("Queensbury", "昆斯伯里"),
    ("Ravenna", "拉文纳"), ("Redwater", "红水镇"), ("Silverton", "锡尔弗顿"), ("Stonefield", "石原镇"),
    ("Thornbury", "索恩伯里"), ("Tilbury", "蒂尔伯里"), ("Upton", "厄普顿"), ("Vernon", "弗农"),
    ("Westport", "韦斯特波特"), ("Wexford", "韦克斯福德"), ("Whitby", "惠特比"), ("Yarrow", "亚罗"),
)  # fmt: skip

REGIONS: Words = (
    ("the northern valleys", "北部山谷"),
    ("the western hills", "西部丘陵"),
    ("the southern lowlands", "南部低地"),
    ("the eastern plains", "东部平原"),
    ("the high mountains", "高山地区"),
    ("the outer islands", "外围岛屿"),
    ("the lake country", "湖区"),
    ("the coastal towns", "沿海城镇"),
    ("the river delta", "河口三角洲"),
    ("the central forests", "中部林区"),
)

DAYS: Words = (
    ("Monday", "周一"),
    ("Tuesday", "周二"),
    ("Wednesday", "周三"),
    ("Thursday", "周四"),
    ("Friday", "周五"),
    ("Saturday", "周六"),
    ("Sunday", "周日"),
)

PARTS_OF_DAY: Words = (("morning", "上午"), ("afternoon", "下午"), ("evening", "晚上"), ("night", "夜间"))

DIRECTIONS: Words = (
    ("north", "北"),
    ("northeast", "东北"),
    ("east", "东"),
    ("southeast", "东南"),
    ("south", "南"),
    ("southwest", "西南"),
    ("west", "西"),
    ("northwest", "西北"),
)

QUARTERS: Words = (
    ("northern", "北部"),
    ("eastern", "东部"),
    ("southern", "南部"),
    ("western", "西部"),
    ("central", "中部"),
)

SMALL_COUNTS: Words = (
    ("two", "两"),
    ("three", "三"),
    ("four", "四"),
    ("five", "五"),
    ("six", "六"),
    ("eight", "八"),
    ("ten", "十"),
    ("twelve", "十二"),
)

SKIES: Words = (
    ("clear", "晴朗"),
    ("mostly clear", "大致晴朗"),
    ("partly cloudy", "局部多云"),
    ("cloudy", "多云"),
    ("mainly cloudy", "大部多云"),
    ("overcast", "阴沉"),
    ("hazy", "朦胧"),
    ("bright", "明亮"),
)

# Precipitation that is "it" in English; showers are "they". Chinese repeats the noun for both.
PRECIPITATION: Words = (
    ("rain", "降雨"),
    ("light rain", "小雨"),
    ("heavy rain", "大雨"),
    ("freezing rain", "冻雨"),
    ("drizzle", "毛毛雨"),
    ("snow", "降雪"),
    ("light snow", "小雪"),
    ("heavy snow", "大雪"),
    ("wet snow", "湿雪"),
    ("sleet", "雨夹雪"),
    ("hail", "冰雹"),
)

SHOWERS: Words = (
    ("showers", "阵雨"),
    ("heavy showers", "强阵雨"),
    ("scattered showers", "零散阵雨"),
    ("snow showers", "阵雪"),
    ("flurries", "零星飘雪"),
    ("thunderstorms", "雷暴"),
    ("severe thunderstorms", "强雷暴"),
    ("squalls", "飑线"),
)

OBSCURATION: Words = (
    ("fog", "雾"),
    ("dense fog", "浓雾"),
    ("freezing fog", "冻雾"),
    ("mist", "薄雾"),
    ("haze", "霾"),
    ("smoke", "烟雾"),
    ("blowing dust", "扬尘"),
    ("blowing snow", "吹雪"),
)

STRENGTHS: Words = (
    ("light", "轻微的"),
    ("moderate", "适中的"),
    ("fresh", "清劲的"),
    ("strong", "强劲的"),
    ("violent", "猛烈的"),
    ("cold", "寒冷的"),
    ("dry", "干燥的"),
    ("warm", "温暖的"),
)

SYSTEMS: Words = (
    ("cold front", "冷锋"),
    ("warm front", "暖锋"),
    ("deep low", "深低压"),
    ("weak ridge", "弱高压脊"),
    ("trough", "低压槽"),
    ("winter storm", "冬季风暴"),
    ("tropical storm", "热带风暴"),
    ("arctic air mass", "北极气团"),
    ("upper disturbance", "高空扰动"),
    ("band of cloud", "云带"),
    ("line of thunderstorms", "雷暴带"),
    ("area of high pressure", "高压区"),
)

WARNINGS: Words = (
    ("wind warning", "大风警报"),
    ("gale warning", "烈风警报"),
    ("blizzard warning", "暴风雪警报"),
    ("snowfall warning", "降雪警报"),
    ("rainfall warning", "降雨警报"),
    ("heat warning", "高温警报"),
    ("avalanche warning", "雪崩警报"),
    ("frost advisory", "霜冻提示"),
    ("fog advisory", "大雾提示"),
    ("flood watch", "洪水警戒"),
    ("thunderstorm watch", "雷暴警戒"),
    ("ice storm watch", "冰暴警戒"),
)

ADVICE: Words = (
    ("stay indoors", "留在室内"),
    ("avoid all travel", "避免一切出行"),
    ("protect tender plants", "保护娇嫩植物"),
    ("secure loose objects", "固定松散物品"),
    ("drink plenty of water", "多喝水"),
    ("keep away from the river", "远离河流"),
    ("check road conditions", "查看路况"),
    ("prepare for power failures", "为停电做好准备"),
    ("bring livestock under cover", "将牲畜赶入棚内"),
    ("follow the instructions of the police", "听从警方指挥"),
)
