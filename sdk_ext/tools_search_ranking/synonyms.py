"""Words that mean the same: the author of a tool took one, the author of a request another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tools_search_ranking.stems import stem
from tools_search_ranking.tokens import is_character

__all__ = [
    "ABBREVIATIONS",
    "CHINESE_VERB_GROUPS",
    "NOUN_GROUPS",
    "VERB_GROUPS",
    "related_words",
    "spelled_out",
]

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
"""What definitions say in two characters, people say in one; no verb leads to that, which is in other words as well."""

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


def _by_stem() -> Mapping[str, tuple[str, ...]]:
    related: dict[str, dict[str, None]] = {}
    for group in VERB_GROUPS + CHINESE_VERB_GROUPS + NOUN_GROUPS:
        stems = dict.fromkeys(map(stem, group.split()))
        for word in stems:
            related.setdefault(word, {}).update(stems)
    return MappingProxyType(
        {
            word: tuple(other for other in others if other != word and not is_character(other))
            for word, others in related.items()
        }
    )


def _both_ways() -> Mapping[str, tuple[str, ...]]:
    spelled: dict[str, tuple[str, ...]] = {}
    for short, long in ABBREVIATIONS.items():
        stems = tuple(map(stem, long.split()))
        spelled[stem(short)] = stems
        if len(stems) == 1:
            spelled[stems[0]] = (stem(short),)
    return MappingProxyType(spelled)


_RELATED: Final = _by_stem()
_SPELLED: Final = _both_ways()


def related_words(stemmed: str) -> tuple[str, ...]:
    """Return the stems of the words that stand for the same operation or thing; none for most words."""
    return _RELATED.get(stemmed, ())


def spelled_out(stemmed: str) -> tuple[str, ...]:
    """Return the stems of what an abbreviation is short for, or the abbreviation of a word; none for most words."""
    return _SPELLED.get(stemmed, ())
