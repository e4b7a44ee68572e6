"""Words of English and Chinese that the ranking treats in a special way: data without code.

Stop words and fillers carry no meaning, words of one group mean the same, abbreviations stand for longer words, and
traditional characters stand for simplified ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_STOP_WORDS: Final = """
    a an the this that these those i me my mine myself we us our ours you your yours he him his she her hers it its
    they them their theirs who whom whose which what someone anyone something anything everything
    am is are was were be been being do does did doing done have has had having can could will would shall should may
    might must s t d m ll ve re don doesn didn isn aren wasn won
    of in on at by for with without from to into onto about as if or and but nor so than then because while during
    through over under between within per via up out off
    not no yes how when where why here there now also just only very too more most some any all each every both either
    other such same own again still even ever please etc eg ie
    want wants wanted need needs needed like help let lets know looking wondering interested able tell give
    provide provides make sure show hi hello hey thanks thank
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
"""Words of grammar and of courtesy, folded, which neither index nor query counts while a query has any other."""

FILLERS: Final = """
    我 你 您 这 那 的 了 吗 呢 吧 什么 怎么 如何 哪 多少 谁 能不能 能否
    请 帮我 帮忙 麻烦 谢谢 想 需要 希望 可以 告诉 一下 一个
"""
"""The stop words of Chinese: pronouns, particles, questions and courtesies."""

WORDS_WITH_FILLERS: Final = "申请 邀请 请求 请假 了解 目的 标的"
"""Words that begin or end with a filler and mean something else."""

VERB_GROUPS: Final = (
    "create add make new insert generate build register",
    "delete remove erase drop destroy clear",
    "list get fetch retrieve view read display lookup",
    "find search query discover locate lookup",
    "update edit modify change set alter rename",
    "send post publish submit share",
    "run execute start launch invoke trigger",
    "stop cancel abort terminate end halt",
    "upload import load",
    "download export save",
    "check verify validate test inspect",
    "compute calculate determine evaluate",
    "convert transform translate",
    "buy purchase order",
    "book reserve schedule plan",
    "add append attach insert put",
    "copy duplicate clone fork",
    "reply respond answer",
    "archive hide",
)

CHINESE_VERB_GROUPS: Final = (
    "创建 新建 新增 添加 建立 增加 生成 建 加",
    "删除 移除 清除 清空 删",
    "获取 查看 列出 读取 查询 看 查",
    "搜索 查找 查询 检索 找 搜 查",
    "更新 修改 编辑 更改 设置 变更 改",
    "发送 发布 发表 提交 发",
    "运行 执行 启动 开启 打开 开",
    "停止 取消 终止 结束 关闭 关 停",
    "上传 导入 传",
    "下载 导出 保存",
    "检查 检测 验证 校验",
    "转换 翻译",
)
"""Definitions use two characters where people use one. No verb leads to a single character, which many words have."""

NOUN_GROUPS: Final = (
    "mail email",
    "photo picture image",
    "folder directory",
    "ticket issue",
    "meeting appointment event",
    "client customer",
    "company business firm",
    "price cost",
    "movie film",
    "car vehicle",
    "row record",
)

ABBREVIATIONS: Final = MappingProxyType(
    {
        "auth": "authentication",
        "config": "configuration",
        "db": "database",
        "dir": "directory",
        "doc": "document",
        "env": "environment",
        "img": "image",
        "js": "javascript",
        "k8s": "kubernetes",
        "mr": "merge request",
        "msg": "message",
        "perm": "permission",
        "pr": "pull request",
        "repo": "repository",
        "vm": "virtual machine",
    }
)

# The commonest 700 of some 3,500, which make up nine tenths of what is written in two ways; the commonest first.
_PAIRS: Final = """
    國国 為为 這这 個个 來来 會会 時时 學学 說说 説说 們们 於于 後后 發发 髮发 對对 長长 過过 業业 裏里 裡里 經经
    麵面 門门 動动 進进 區区 開开 產产 軍军 還还 種种 現现 機机 體体 與与 當当 兩两 實实 麼么 隻只 關关 從从 製制
    內内 沒没 將将 員员 東东 頭头 間间 無无 見见 戰战 點点 場场 數数 樣样 問问 並并 萬万 級级 應应 資资 務务 係系
    氣气 漢汉 總总 電电 聲声 設设 義义 統统 處处 馬马 兒儿 領领 隊队 計计 別别 權权 話话 報报 給给 變变 書书 幾几
    華华 議议 稱称 決决 張张 導导 術术 結结 師师 達达 題题 條条 規规 縣县 風风 運运 組组 聽听 濟济 黨党 論论 強强
    黃黄 選选 記记 卻却 職职 號号 類类 傳传 帶带 農农 邊边 據据 聯联 廣广 質质 陽阳 難难 歷历 專专 認认 車车 臺台
    舉举 線线 團团 備备 爭争 眾众 連连 調调 轉转 該该 爾尔 讓让 較较 際际 親亲 單单 紅红 價价 約约 週周 亞亚 則则
    屬属 積积 圖图 準准 極极 裝装 許许 參参 觀观 魚鱼 辦办 復复 複复 遠远 構构 隨随 劃划 勢势 熱热 網网 語语 鐵铁
    斷断 愛爱 紀纪 況况 證证 編编 滿满 覺觉 雙双 樂乐 標标 確确 織织 項项 飛飞 節节 龍龙 響响 藥药 輕轻 擊击 請请
    離离 顯显 羅罗 營营 視视 護护 創创 餘余 興兴 雖虽 費费 試试 寶宝 識识 維维 採采 宮宫 環环 鬥斗 鄉乡 責责 嚴严
    橋桥 僅仅 勝胜 殺杀 圍围 態态 楊杨 負负 層层 須须 續续 狀状 銀银 範范 終终 錢钱 賽赛 獨独 細细 衝冲 獲获 習习
    醫医 盡尽 臉脸 彈弹 樓楼 藝艺 陸陆 協协 鎮镇 檢检 寫写 驗验 緊紧 勞劳 戶户 優优 財财 養养 適适 陳陈 衛卫 雲云
    傷伤 絕绝 階阶 劉刘 剛刚 億亿 聞闻 審审 壓压 監监 敵敌 蘭兰 溫温 園园 樹树 徵征 詞词 島岛 預预 繼继 執执 誰谁
    驚惊 畫画 輯辑 劍剑 談谈 禮礼 願愿 築筑 亂乱 講讲 臨临 揮挥 歐欧 葉叶 簡简 擔担 歲岁 荊荆 貴贵 轄辖 幫帮 塊块
    額额 錯错 劇剧 歡欢 夠够 孫孙 陣阵 銷销 堅坚 練练 腳脚 讀读 測测 吳吴 寧宁 換换 異异 顧顾 順顺 鮮鲜 敗败 貨货
    礦矿 歸归 買买 險险 評评 嗎吗 廠厂 遺遗 筆笔 輸输 漸渐 頂顶 訓训 錄录 畢毕 豐丰 獻献 爺爷 納纳 鐘钟 腦脑 飯饭
    擴扩 齊齐 趕赶 訴诉 詩诗 礎础 屆届 靜静 盤盘 賣卖 灣湾 減减 靈灵 雜杂 澤泽 側侧 慶庆 媽妈 館馆 補补 舊旧 輪轮
    婦妇 載载 懷怀 軟软 槍枪 牆墙 惡恶 頓顿 穩稳 諸诸 綠绿 榮荣 針针 託托 寬宽 庫库 罷罢 謝谢 頁页 擁拥 聖圣 戲戏
    獎奖 幣币 圓圆 燒烧 討讨 煙烟 誤误 療疗 閉闭 脫脱 尋寻 崗岗 麗丽 橫横 駐驻 紙纸 奪夺 燈灯 壞坏 絲丝 徑径 購购
    陰阴 擇择 憲宪 魯鲁 廟庙 艦舰 課课 奧奥 虛虚 隱隐 糧粮 絡络 搖摇 潛潜 莊庄 廳厅 趙赵 訪访 韋韦 噸吨 揚扬 縱纵
    紛纷 貿贸 匯汇 滅灭 儀仪 緩缓 蓋盖 跡迹 釋释 潤润 嶺岭 慮虑 鋼钢 碼码 壇坛 錛锛 損损 稅税 綜综 倫伦 掛挂 韓韩
    競竞 烏乌 鋪铺 脈脉 純纯 謀谋 劑剂 謂谓 頻频 壯壮 騎骑 雞鸡 蟲虫 紹绍 銅铜 擺摆 縮缩 廢废 訂订 績绩 鹽盐 薩萨
    貼贴 觸触 蓮莲 搶抢 紡纺 訊讯 譽誉 夢梦 夥伙 峽峡 殘残 閃闪 賊贼 傾倾 貧贫 諾诺 麥麦 淚泪 輩辈 鏡镜 貢贡 緣缘
    貝贝 罵骂 飲饮 奮奋 躍跃 贊赞 啟启 閣阁 勁劲 晉晋 溝沟 鋒锋 膽胆 憑凭 闖闯 湯汤 遷迁 儲储 貫贯 徹彻 鳳凤 賞赏
    遼辽 詢询 毀毁 淨净 棄弃 屍尸 偉伟 覽览 齡龄 繞绕 濃浓 緒绪 藍蓝 蕩荡 閱阅 鴻鸿 慣惯 鳥鸟 辭辞 窮穷 鍵键 遞递
    厲厉 襲袭 災灾 漲涨 濕湿 鄭郑 譯译 鄧邓 腸肠 詔诏 冊册 鍋锅 闊阔 趨趋 錦锦 顏颜 懸悬 誠诚 曉晓 蔣蒋 攝摄 罰罚
    輛辆 騰腾 繪绘 撲扑 頒颁 違违 貸贷 飾饰 滾滚 遲迟 汙污 輔辅 煩烦 盜盗 涼凉 岡冈 駕驾 肅肃 撫抚 煉炼 綱纲 傑杰
    憂忧 掃扫 暫暂 漁渔 賓宾 壽寿 豬猪 湧涌 鄰邻 勸劝 踐践 頃顷 賦赋 萊莱 擬拟 賢贤 憤愤 轟轰 陝陕 臘腊 猶犹 輝辉
    頗颇 淺浅 喪丧 慘惨 驅驱 塗涂 牽牵 鹹咸 詳详 纖纤 檔档 豈岂 繡绣 嚇吓 賴赖 盧卢 顆颗 郵邮 凱凯 帥帅 鎖锁 帳帐
    膠胶 殼壳 髒脏 彎弯 擋挡 籌筹 腫肿 兇凶 債债 賈贾 譜谱 夾夹 塵尘 鑽钻 叢丛 賀贺 擾扰 錫锡 爐炉 紋纹 虧亏 鑑鉴
    齒齿 獸兽 礙碍 辯辩 撥拨 恆恒 勵励 鳴鸣 償偿 攔拦 脅胁 紐纽 爛烂 嘗尝 闢辟 艱艰 薦荐 釐厘 喬乔 軸轴 噴喷 軌轨
    暢畅 霧雾 丟丢 諮咨 潔洁 窩窝 飄飘 膚肤 磚砖 贏赢 擠挤 獅狮 診诊 籃篮 喚唤 俠侠 樞枢 欄栏
"""

SIMPLIFIED: Final[Mapping[str, str]] = MappingProxyType({pair[0]: pair[1] for pair in _PAIRS.split()})
"""The simplified characters, by the traditional ones that they stand for."""
